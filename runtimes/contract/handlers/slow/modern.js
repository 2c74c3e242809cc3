const { setTimeout: sleep } = require('timers/promises');

module.exports.main = async (req, res) => {
  await sleep(1500);
  res.json({ finished: true });
};
