module.exports = { main: (req, res) => res.send(`got ${req.body}`) };
