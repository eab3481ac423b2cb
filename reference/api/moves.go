package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/name"
)

// moved is the answer of DELETE /v1/names/{name} and POST /v1/names/{name}/lock.
type moved struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// moves handles a change of a name's state. It is for other services, not for
// users: who may speak for a user is not the checker's to know, so that these
// paths must not be reachable from outside.
func (s *Server) moves(to name.State, move func(ctx context.Context, raw string, userID int64) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		code := func() int {
			n, err := s.service.Names.Registrable(r.PathValue("name"))
			if err != nil {
				return fail(w, err)
			}
			id, err := strconv.ParseInt(r.URL.Query().Get("user_id"), 10, 64)
			if err != nil || id < 1 {
				return fail(w, badRequest("query needs the user_id of the owner"))
			}
			if err := move(r.Context(), n, id); err != nil {
				return fail(w, err)
			}
			return write(w, http.StatusOK, moved{Name: n, State: to.String()})
		}()
		s.move.done(code, "", time.Since(start))
	}
}

func isTaken(err error) bool { return errors.Is(err, reference.ErrTaken) }
