module.exports = {
  main: async (event) => {
    await event.emitCloudEvent('order.noted', 'orders', undefined, { rousecause: 'mine' });
    return { emitted: true };
  },
};
