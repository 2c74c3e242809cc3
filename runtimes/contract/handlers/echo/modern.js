module.exports = { main: (req, res) => res.json({ method: req.method, data: req.body }) };
