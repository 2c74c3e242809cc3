module.exports = { handler: () => ({ answer: 42 }) };
