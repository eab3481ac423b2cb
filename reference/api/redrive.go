package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/regpath/diagnose/reference"
)

// redriveTimeout bounds one call, within the time that an answer may take.
const redriveTimeout = writeTimeout - 2*time.Second

// redriven tells what has become of the dead letters of a group.
type redriven struct {
	Group   string `json:"group"`
	Handled int    `json:"handled"`
	Left    int    `json:"left"`
}

// serveRedrive gives the events that a group gave up to its handler again.
func (s *Server) serveRedrive(w http.ResponseWriter, r *http.Request) {
	group := r.PathValue("group")
	for _, c := range s.service.Consumers {
		if c.Stats().Group != group {
			continue
		}
		ctx, cancel := context.WithTimeout(r.Context(), redriveTimeout)
		defer cancel()
		done, err := c.Redrive(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) { // what is not done in time is for the next call
			s.errors.Record(reference.Failure{Layer: reference.Event, Target: group, Err: err})
			fail(w, &reference.DownError{What: "the dead letters cannot be read", Err: err})
			return
		}
		write(w, http.StatusOK, redriven{Group: group, Handled: done.Handled, Left: done.Left})
		return
	}
	write(w, http.StatusNotFound, struct {
		Error string `json:"error"`
	}{"this instance has no consumer of that group"})
}
