package broker

import (
	"context"
	"time"
)

const closeTimeout = 10 * time.Second

// Hold keeps the connection until ctx ends, and then drains and closes it. It is how a process that runs parts under
// contexts runs its connection.
func (c *Conn) Hold(ctx context.Context) error {
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.Close(closing)
}
