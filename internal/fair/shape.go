// Package jsonshape counts what a JSON text becomes in memory, before anything is made of it: an empty object of two bytes becomes a
// struct or a map of a hundred.
//
// It guarantees that
//   - counting takes one pass over the bytes, as they arrive, and allocates nothing;
//   - a text that is no JSON is counted somehow: whether it is any is the decoder's to say.
package fair

// JSONLimits bound a text.
type JSONLimits struct {
	// Values is how many values there may be, the keys of objects not among them.
	Values int
	// Depth is how many objects and arrays may be around one.
	Depth int
}

// JSONCounter counts one text.
type JSONCounter struct {
	Limits JSONLimits

	values, depth   int
	text, backslash bool
}

// Add counts the next part of the text. It is false once the text is over a limit.
func (c *JSONCounter) Add(part []byte) bool {
	for _, b := range part {
		switch {
		case c.backslash:
			c.backslash = false
		case c.text:
			c.text, c.backslash = b != '"', b == '\\'
		case b == '"':
			c.text = true
		case b == '{' || b == '[':
			c.values++
			c.depth++
		case b == '}' || b == ']':
			c.depth--
		case b == ',':
			c.values++
		}
		if c.values > c.Limits.Values || c.depth > c.Limits.Depth {
			return false
		}
	}
	return true
}
