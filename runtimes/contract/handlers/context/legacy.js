module.exports = {
  main: (event, context) => ({
    name: context['function-name'],
    namespace: context.namespace,
    runtime: context.runtime,
    timeout: context.timeout,
  }),
};
