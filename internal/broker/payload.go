package broker

// deadLetterReserve is what a dead letter adds to its event at most. Events that
// would not fit the server with it are refused, so that none is stored that
// could not become a dead letter.
const deadLetterReserve = 4 << 10

// ExpectEvents sets how large events may be as publishers send them. It logs at each
// connect if the server does not take all of them.
func (p *Publisher) ExpectEvents(size int64) {
	p.conn.OnConnect(func() {
		largest := p.largest()
		if needed := encodedSize(size); needed > largest {
			p.conn.log.Info("NATS refuses the largest events that publishers may send: raise its max_payload or lower --max-request-size",
				"maxRequestSize", size, "neededMaxPayload", needed+deadLetterReserve, "maxPayload", largest+deadLetterReserve)
		}
	})
}

// largest is how many bytes a message may have.
func (p *Publisher) largest() int64 { return p.conn.nc.MaxPayload() - deadLetterReserve }

// encodedSize is what an event may need that is sent with so many bytes: data that
// are no text become base64, and the attributes come to them.
func encodedSize(size int64) int64 {
	const attributes = 12 << 10
	return size/3*4 + attributes
}
