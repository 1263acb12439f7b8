package sseedge

// Routes are all that an Edge may serve, as "GET /v1/events".
func (e *Edge) Routes() []string { return e.router.Routes() }
