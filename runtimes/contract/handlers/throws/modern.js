module.exports = {
  main: async () => {
    throw new Error('the secret reason');
  },
};
