const sdk = require('sdk');

module.exports.main = (req, res) =>
  res.json({
    name: sdk.getFunctionName(),
    namespace: sdk.getNamespace(),
    runtime: sdk.getRuntime(),
    timeout: sdk.getTimeout(),
  });
