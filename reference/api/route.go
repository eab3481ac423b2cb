package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/regpath/diagnose/reference/name"
)

// maxRouteNames bounds one request for routes.
const maxRouteNames = 5_000

type routeDoc struct {
	Now     time.Time `json:"now"`
	Version int       `json:"version"`
	Shards  []string  `json:"shards"`
}

// serveRoute says on which shards this instance looks for names. It asks nobody.
func (s *Server) serveRoute(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Names []string `json:"names"`
	}
	if err := decode(w, r, maxTestBody, &body); err != nil {
		fail(w, err)
		return
	}
	if len(body.Names) > maxRouteNames {
		fail(w, badRequest(fmt.Sprintf("%d names, at most %d are allowed", len(body.Names), maxRouteNames)))
		return
	}
	doc := routeDoc{Now: time.Now(), Version: s.service.Shards.Table().Version, Shards: make([]string, len(body.Names))}
	for i, raw := range body.Names {
		if n, err := name.Canonical(raw); err == nil {
			doc.Shards[i] = s.service.Shards.Home(n)
		}
	}
	write(w, http.StatusOK, doc)
}
