module.exports = { main: async () => {} };
