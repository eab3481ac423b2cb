// Package api is the checker's face: the HTTP API for users, /metrics for
// Prometheus, and the diagnostic contract for the agent (CONTRACT.md).
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/guard"
	"github.com/regpath/diagnose/reference/name"
	"github.com/regpath/diagnose/reference/traffic"
)

// Limits of a request.
const (
	maxRegisterBody = 4 << 10
	maxNamesBody    = 1 << 20
	maxHeader       = 16 << 10
	headerTimeout   = 2 * time.Second
	readTimeout     = 5 * time.Second
	writeTimeout    = 10 * time.Second
	idleTimeout     = 2 * time.Minute
)

// Options are what a Server shows.
type Options struct {
	Service *reference.Service
	Errors  *ErrorLog
	Changes *ChangeLog
	// Receipts let a registrant see his registration at every instance; nil
	// leaves them out.
	Receipts *cache.Receipts
	// Guard stands before the service, and Origin tells it who asks; nil for neither.
	Guard  *guard.Guard
	Origin *guard.Origin
	// Faults is mounted at /debug/fault/; nil leaves the path unknown.
	Faults http.Handler
	Logger *slog.Logger
}

// Server is the HTTP side of a checker.
type Server struct {
	service         *reference.Service
	errors          *ErrorLog
	changes         *ChangeLog
	startedAt       time.Time
	check, register *meter
	attempt, move   *meter
	pulse           pulse
	guard           *guard.Guard
	origin          *guard.Origin
	stopping        atomic.Bool
	http            *http.Server
	receipts        *cache.Receipts
	room            sync.Pool // of *[answerRoom]byte
	headers         []string  // the values that every answer has
}

// New returns a server that is not listening yet. It fails when a metric
// cannot be registered.
func New(o Options) (*Server, error) {
	s := &Server{
		service: o.Service, errors: o.Errors, changes: o.Changes, startedAt: time.Now(),
		check: checkMeter(), register: registerMeter(), attempt: newMeter("attempt"), move: newMeter("move"),
		guard: o.Guard, origin: o.Origin,
		receipts: o.Receipts,
		room:     sync.Pool{New: func() any { return new([answerRoom]byte) }},
		headers:  []string{"application/json", "nosniff"},
	}
	registry, err := s.registry()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/check", s.serveCheck)
	mux.HandleFunc("POST /v1/register", s.serveRegister)
	if s.guard != nil {
		mux.HandleFunc("POST /v1/register/attempt", s.serveAttempt)
	}
	mux.HandleFunc("DELETE /v1/names/{name}", s.moves(name.Released, s.service.Release))
	mux.HandleFunc("POST /v1/names/{name}/lock", s.moves(name.Locked, s.service.Lock))
	mux.HandleFunc("GET /openapi.yaml", serveOpenAPI)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, status{"ok"}) })
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s.diagnose(mux)
	mux.HandleFunc("POST /debug/events/{group}/redrive", s.serveRedrive)
	if o.Faults != nil {
		mux.Handle("/debug/fault/", o.Faults)
	}
	s.http = &http.Server{
		Handler: mux, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// Serve answers on l until Shutdown; it returns nil then.
func (s *Server) Serve(l net.Listener) error {
	defer s.pulse.start()()
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// Shutdown says "not ready", lets running requests end until ctx does, and then
// cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down http: %w", err), s.http.Close())
	}
	return nil
}

type status struct {
	Status string `json:"status"`
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		write(w, http.StatusServiceUnavailable, status{"stopping"})
		return
	}
	write(w, http.StatusOK, status{"ok"})
}

func (s *Server) serveCheck(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	code, tag := s.answerCheck(w, r)
	s.check.done(code, tag, time.Since(start))
}

func (s *Server) answerCheck(w http.ResponseWriter, r *http.Request) (code int, tag string) {
	asked, err := queryName(r.URL)
	if err != nil {
		return fail(w, err), ""
	}
	s.watch(traffic.Check, asked, r)
	if a, ok := s.byReceipt(r, asked); ok {
		return s.writeChecked(w, checked{Name: a.Name, AnsweredBy: a.By}), string(a.By)
	}
	if s.guard != nil {
		return s.guardedCheck(w, r, asked)
	}
	a, err := s.service.Check(r.Context(), asked)
	if err != nil {
		return fail(w, err), ""
	}
	return s.writeChecked(w, checked{Name: a.Name, Available: !a.Taken, AnsweredBy: a.By}), string(a.By)
}

// registered is the answer of POST /v1/register. The id is a string because it
// needs more bits than a JavaScript number has.
type registered struct {
	Name   string `json:"name"`
	UserID int64  `json:"user_id,string"`
}

// registration is the body of POST /v1/register. The last three come from the
// attempt, where the guard wants one.
type registration struct {
	Name    *string `json:"name"`
	Mobile  string  `json:"mobile"`
	Attempt string  `json:"attempt"`
	Token   string  `json:"token"`
	Answer  string  `json:"answer"`
}

func readRegistration(w http.ResponseWriter, r *http.Request) (out registration, err error) {
	body, err := readBody(w, r, maxRegisterBody)
	if err != nil {
		return out, err
	}
	if n, plain := plainName(body); plain {
		return registration{Name: &n}, nil
	}
	err = parse(body, &out)
	return out, err
}

func (s *Server) serveRegister(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	code, tag := s.answerRegister(w, r)
	s.register.done(code, tag, time.Since(start))
}

func (s *Server) answerRegister(w http.ResponseWriter, r *http.Request) (code int, outcome string) {
	body, err := readRegistration(w, r)
	if err != nil {
		return fail(w, err), "invalid"
	}
	if body.Name == nil {
		return fail(w, badRequest("name is missing")), "invalid"
	}
	s.watch(traffic.Register, *body.Name, r)
	if s.guard != nil {
		if code := s.guardRegister(w, r, body); code != 0 {
			return code, "refused"
		}
	}
	got, err := s.service.RegisterMobile(r.Context(), *body.Name, body.Mobile)
	s.learned(*body.Name, err)
	switch {
	case err == nil:
		giveReceipt(w, s.receipts, got.Name)
		return write(w, http.StatusCreated, registered{Name: got.Name, UserID: got.UserID}), "created"
	case errors.Is(err, reference.ErrTaken), errors.Is(err, reference.ErrMobileTaken):
		return fail(w, err), "taken"
	case invalidName(err), errors.Is(err, reference.ErrMobile):
		return fail(w, err), "invalid"
	}
	return fail(w, err), "failed"
}

func invalidName(err error) bool {
	for _, kind := range []error{name.ErrEncoding, name.ErrShort, name.ErrLong, name.ErrCharacter, name.ErrMixed, name.ErrConfusable, name.ErrReserved} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// fail answers with the status and the text that belong to err. What went wrong
// inside is in the error log, not in the answer.
func fail(w http.ResponseWriter, err error) (code int) {
	code, text := http.StatusInternalServerError, "internal error"
	var bad badRequest
	down := (*reference.DownError)(nil)
	switch {
	case errors.As(err, &bad), invalidName(err), errors.Is(err, reference.ErrMobile):
		code, text = http.StatusBadRequest, err.Error()
	case errors.Is(err, errTooLarge):
		code, text = http.StatusRequestEntityTooLarge, err.Error()
	case errors.Is(err, reference.ErrTaken):
		code, text = http.StatusConflict, reference.ErrTaken.Error()
	case errors.Is(err, reference.ErrMobileTaken):
		code, text = http.StatusConflict, reference.ErrMobileTaken.Error()
	case errors.Is(err, reference.ErrNotFound):
		code, text = http.StatusNotFound, reference.ErrNotFound.Error()
	case errors.Is(err, reference.ErrNotOwner):
		code, text = http.StatusForbidden, reference.ErrNotOwner.Error()
	case errors.Is(err, name.ErrMove):
		code, text = http.StatusConflict, err.Error()
	case errors.Is(err, reference.ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		code, text = http.StatusServiceUnavailable, reference.ErrUnavailable.Error()
		if errors.As(err, &down) {
			text += ": " + down.What
		}
	}
	return write(w, code, struct {
		Error string `json:"error"`
	}{text})
}

// write sends v as JSON and returns code. A client that has gone away is not an
// error of ours.
func write(w http.ResponseWriter, code int, v any) int {
	body, err := json.Marshal(v)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
	return code
}
