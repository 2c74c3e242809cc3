module.exports = {
  main: (event) => ({
    id: event['ce-id'],
    type: event['ce-type'],
    source: event['ce-source'],
    version: event['ce-eventtypeversion'],
    data: event.data ?? null,
  }),
};
