module.exports = { main: async (req, res) => res.end() };
