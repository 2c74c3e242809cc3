const sdk = require('sdk');

module.exports = {
  main: async (req, res) => {
    await sdk.emitCloudEvent('order.noted', 'orders', 'grüß dich');
    res.json({ emitted: true });
  },
};
