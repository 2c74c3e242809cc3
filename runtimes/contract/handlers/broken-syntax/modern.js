module.exports = { main: () => ({ answer: 42 };
