module.exports = {
  main: (event) => ({ method: event.extensions.request.method, data: event.data }),
};
