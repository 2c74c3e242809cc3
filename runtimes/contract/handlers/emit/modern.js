const { emitCloudEvent } = require('sdk');

module.exports.main = async (req, res) => {
  await emitCloudEvent('order.priced', 'orders', { price: 42, was: req.body }, { eventtypeversion: 'v1' });
  res.json({ emitted: true });
};
