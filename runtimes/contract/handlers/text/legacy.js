module.exports = { main: (event) => `got ${event.data}` };
