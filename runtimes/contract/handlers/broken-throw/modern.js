function connect() {
  throw new TypeError('no address of the database');
}
connect();
module.exports = { main: () => ({ answer: 42 }) };
