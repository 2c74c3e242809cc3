const sdk = require('sdk');

module.exports = {
  main: (req, res) => {
    const event = sdk.getCloudEvent(req);
    res.json(event ? { event: true, specversion: event.specversion, time: Boolean(event.time) } : { event: false });
  },
};
