// Puts the Express application together: the reserved paths, and the handler for everything else.
'use strict';

const express = require('express');
const { parser } = require('./body.js');
const { cors, deadline, errors } = require('./respond.js');
const legacy = require('./legacy.js');
const modern = require('./modern.js');

function createApp(main, config, publisher) {
  const app = express();
  app.disable('x-powered-by');
  app.get('/healthz', (req, res) => res.status(200).type('text').send('OK'));
  app.get('/favicon.ico', (req, res) => res.status(204).end());
  app.use(cors, deadline(config.timeoutSeconds), parser(config.bodyLimitMb));
  app.use(config.modern ? modern.middleware(main) : legacy.middleware(main, config, publisher));
  app.use(errors);
  return app;
}

module.exports = { createApp };
