module.exports = { main: (req, res) => res.send(req.originalUrl) };
