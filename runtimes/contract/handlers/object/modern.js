module.exports = { main: (req, res) => res.json({ answer: 42 }) };
