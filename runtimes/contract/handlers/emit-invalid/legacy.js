module.exports = {
  main: async (event) => {
    await event.emitCloudEvent('order.noted', 'orders', 'grüß dich', {'not-valid': 'x'});
    return { emitted: true };
  },
};
