package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/regpath/diagnose/reference"
)

// A check that the filter or the local cache answers costs little more than its
// HTTP. What the standard library does here for every shape of query and answer
// would be half of the rest, so that the one shape that nearly all have is
// handled by itself, and everything else as ever.

// queryName returns the one name that the query asks for.
func queryName(u *url.URL) (string, error) {
	if plain, ok := strings.CutPrefix(u.RawQuery, "name="); ok && !strings.ContainsAny(plain, "&;%+") {
		return plain, nil
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", badRequest("query is malformed")
	}
	if len(q["name"]) != 1 {
		return "", badRequest("query needs exactly one name")
	}
	return q["name"][0], nil
}

// checked is the answer of GET /v1/check.
type checked struct {
	Name       string          `json:"name"`
	Available  bool            `json:"available"`
	AnsweredBy reference.Layer `json:"answered_by"`
}

// append appends what json.Marshal makes of c; ok is false if the name is not
// plain enough.
func (c checked) append(b []byte) (out []byte, ok bool) {
	for i := range len(c.Name) {
		switch ch := c.Name[i]; {
		case 'a' <= ch && ch <= 'z', '0' <= ch && ch <= '9', ch == '_', ch == '.', ch == '-':
		default:
			return b, false
		}
	}
	b = append(b, `{"name":"`...)
	b = append(b, c.Name...)
	b = append(b, `","available":`...)
	if c.Available {
		b = append(b, `true,"answered_by":"`...)
	} else {
		b = append(b, `false,"answered_by":"`...)
	}
	b = append(b, c.AnsweredBy...)
	return append(b, `"}`...), true
}

// writeChecked sends what write would.
func (s *Server) writeChecked(w http.ResponseWriter, c checked) int {
	room := s.room.Get().(*[answerRoom]byte) // New makes nothing else
	defer s.room.Put(room)
	body, ok := c.append(room[:0])
	if !ok {
		return write(w, http.StatusOK, c)
	}
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = s.headers[0:1:1], s.headers[1:2:2]
	_, _ = w.Write(append(body, '\n')) // copies; a client that has gone away is not an error of ours
	return http.StatusOK
}

// answerRoom is room for every plain answer: a name has at most 64 bytes.
const answerRoom = 192
