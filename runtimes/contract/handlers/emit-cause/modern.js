const sdk = require('sdk');

module.exports = {
  main: async (req, res) => {
    await sdk.emitCloudEvent('order.noted', 'orders', undefined, { rousecause: 'mine' });
    res.json({ emitted: true });
  },
};
