module.exports = {
  main: async (event) => {
    event.setResponseStatus(201);
    event.setResponseHeader('X-Order', '7');
    event.setResponseContentType('application/vnd.order+json');
    return { created: true };
  },
};
