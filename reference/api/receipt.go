package api

import (
	"net/http"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
)

// receiptHeader carries the read-your-writes marker: out with the answer to a
// registration, in with the registrant's next checks, at any instance.
const receiptHeader = "Registration-Receipt"

// giveReceipt adds to the answer what the registrant may show.
func giveReceipt(w http.ResponseWriter, r *cache.Receipts, name string) {
	if r != nil {
		w.Header().Set(receiptHeader, r.Issue(name, time.Now()))
	}
}

// byReceipt answers a check from the receipt that it shows, if it is good.
func (s *Server) byReceipt(r *http.Request, asked string) (a reference.Answer, ok bool) {
	shown := r.Header[receiptHeader]
	if len(shown) != 1 || s.receipts == nil {
		return a, false
	}
	n, err := s.service.Names.Registrable(asked)
	if err != nil || !s.receipts.Valid(shown[0], n, time.Now()) {
		return a, false
	}
	return reference.Answer{Name: n, Taken: true, By: reference.Local}, true
}
