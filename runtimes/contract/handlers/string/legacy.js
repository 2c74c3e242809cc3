module.exports = { main: () => 'grüß <b>dich</b>' };
