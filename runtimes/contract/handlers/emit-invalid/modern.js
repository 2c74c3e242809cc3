const sdk = require('sdk');

module.exports = {
  main: async (req, res) => {
    await sdk.emitCloudEvent('order.noted', 'orders', 'grüß dich', {'not-valid': 'x'});
    res.json({ emitted: true });
  },
};
