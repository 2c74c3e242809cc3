package routing

// Endpoint is one place where a sink can be reached.
type Endpoint struct {
	// Address is host:port.
	Address string
	// Ready is true while the endpoint passes its readiness probe.
	Ready bool
	// Terminating is true once the endpoint is being shut down.
	Terminating bool
	// Function is true when the Service is that of a Function, whose endpoints
	// may be dialled before they are Ready.
	Function bool
}
