module.exports = {
  main: (req, res) => res.status(201).set('X-Order', '7').type('application/vnd.order+json').json({ created: true }),
};
