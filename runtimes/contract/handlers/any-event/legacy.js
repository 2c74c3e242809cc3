module.exports = {
  main: (event) =>
    event['ce-id'] === undefined
      ? { event: false }
      : { event: true, specversion: event['ce-specversion'], time: Boolean(event['ce-time']) },
};
