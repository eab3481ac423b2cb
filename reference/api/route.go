package api

import (
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
	names, err := decodeNames(w, r, maxRouteNames)
	if err != nil {
		fail(w, err)
		return
	}
	doc := routeDoc{Now: time.Now(), Version: s.service.Shards.Table().Version, Shards: make([]string, len(names))}
	for i, raw := range names {
		if n, err := name.Canonical(raw); err == nil {
			doc.Shards[i] = s.service.Shards.Home(n)
		}
	}
	write(w, http.StatusOK, doc)
}
