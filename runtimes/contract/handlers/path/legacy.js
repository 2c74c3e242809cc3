module.exports = { main: (event) => event.extensions.request.originalUrl };
