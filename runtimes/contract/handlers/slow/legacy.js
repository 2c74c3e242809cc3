const { setTimeout: sleep } = require('timers/promises');

module.exports = {
  main: async () => {
    await sleep(1500);
    return { finished: true };
  },
};
