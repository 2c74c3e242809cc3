module.exports = {
  main: async (event) => {
    await event.emitCloudEvent('order.priced', 'orders', { price: 42, was: event.data }, { eventtypeversion: 'v1' });
    return { emitted: true };
  },
};
