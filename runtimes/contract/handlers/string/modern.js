module.exports = { main: (req, res) => res.send('grüß <b>dich</b>') };
