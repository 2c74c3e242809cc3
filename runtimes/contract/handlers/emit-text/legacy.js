module.exports = {
  main: async (event) => {
    await event.emitCloudEvent('order.noted', 'orders', 'grüß dich');
    return { emitted: true };
  },
};
