package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// HandlerOptions are the limits of the webhook.
type HandlerOptions struct {
	// Tokens are the bearer tokens that are let in, several while one replaces
	// another. Without any, everybody is let in; an empty one lets nobody in.
	Tokens []string
	// MaxBody is the largest body, in bytes; 16 MiB when zero.
	MaxBody int64
	// ReadTimeout bounds the reading of a body; 10 seconds when zero.
	ReadTimeout time.Duration
	// StoreTimeout bounds the wait for the store; 5 seconds when zero.
	StoreTimeout time.Duration
}

// minRoom is what a request takes of the memory for bodies at least: it has
// buffers and a goroutine beside its body.
const minRoom = 16 << 10 // bytes

// Handler returns the webhook that Alertmanager posts to. The package
// documentation lists its answers; every answer is a small JSON object.
func Handler(in *Inbox, opts HandlerOptions) http.Handler {
	if opts.MaxBody == 0 {
		opts.MaxBody = 16 << 20
	}
	if opts.ReadTimeout == 0 {
		opts.ReadTimeout = 10 * time.Second
	}
	if opts.StoreTimeout == 0 {
		opts.StoreTimeout = 5 * time.Second
	}
	return &handler{
		inbox: in,
		opts:  opts,
		auth:  newBearer(opts.Tokens),
		// Decoding a body takes a few times its size: hold two of the largest
		// at a time, or thousands of small ones.
		room: semaphore.NewWeighted(2 * opts.MaxBody),
	}
}

type handler struct {
	inbox *Inbox
	opts  HandlerOptions
	auth  bearer
	room  *semaphore.Weighted
}

// refusal is an answer that is not 2xx.
type refusal struct {
	status int
	// reason is one of a few fixed words, for the metric.
	reason string
	// text is for whoever reads the answer.
	text string
	// cause is for the log only.
	cause error
}

// answer is the body of every answer.
type answer struct {
	Status    string    `json:"status"` // stored, nothing-to-do, refused
	Incidents []Outcome `json:"incidents,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.inbox.metrics.received.Inc()
	outcomes, no := h.serve(w, r)
	if no != nil {
		h.inbox.metrics.refused.WithLabelValues(no.reason).Inc()
		h.log(r, no)
		reply(w, no.status, answer{Status: "refused", Reason: no.reason, Error: no.text})
		return
	}
	h.inbox.metrics.accepted.Inc()
	status := "stored"
	if len(outcomes) == 0 {
		status = "nothing-to-do"
	}
	reply(w, http.StatusOK, answer{Status: status, Incidents: outcomes})
}

// log reports a refusal: what the sender did wrong is a warning, what we could
// not do is an error. Neither the body nor the credentials are in it.
func (h *handler) log(r *http.Request, no *refusal) {
	logger := h.inbox.opts.Logger.With("status", no.status, "reason", no.reason, "remote", r.RemoteAddr)
	if no.cause != nil {
		logger.ErrorContext(r.Context(), "notification could not be taken in", "err", loggable(no.cause.Error(), 500))
		return
	}
	logger.WarnContext(r.Context(), "notification refused", "what", no.text)
}

// serve takes one request in.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) ([]Outcome, *refusal) {
	if no := h.admit(w, r); no != nil {
		return nil, no
	}
	// The sender may give up while we store; storing on spares the repetition.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.opts.ReadTimeout+h.opts.StoreTimeout)
	defer cancel()
	size := max(r.ContentLength, minRoom)
	if r.ContentLength < 0 { // chunked
		size = h.opts.MaxBody
	}
	if err := h.room.Acquire(ctx, size); err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "busy", "too many large bodies at once: repeat it", nil}
	}
	defer h.room.Release(size)
	m, no := h.read(w, r)
	if no != nil {
		return nil, no
	}
	for range m.Unknown {
		h.inbox.metrics.alerts.WithLabelValues("unknown").Inc()
	}
	h.inbox.metrics.spoilt.Add(float64(len(m.Spoilt)))
	ctx, cancel = context.WithTimeout(ctx, h.opts.StoreTimeout)
	defer cancel()
	outcomes, err := h.inbox.Store(ctx, m)
	switch {
	case errors.Is(err, ErrStopped):
		return nil, &refusal{http.StatusServiceUnavailable, "stopping", "shutting down: repeat it", nil}
	case errors.Is(err, ErrBehind):
		return nil, &refusal{http.StatusServiceUnavailable, "behind", "too many notifications wait for the disk: repeat it", nil}
	case err != nil:
		return nil, &refusal{http.StatusServiceUnavailable, "store", "could not be stored: repeat it", err}
	}
	logger := h.inbox.opts.Logger.With("receiver", loggable(m.Receiver, 100), "alerts", len(m.Alerts))
	if len(m.Spoilt) > 0 {
		logger.WarnContext(ctx, "fields of a notification could not be read", "fields", m.Spoilt)
	}
	for _, o := range outcomes {
		logger.InfoContext(ctx, "notification stored", "incident", o.Incident, "effect", o.Effect, "title", loggable(m.title(), 100))
	}
	return outcomes, nil
}

// admit looks at all of the request but its body.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &refusal{http.StatusMethodNotAllowed, "method", "only POST is served", nil}
	}
	if no := h.auth.admit(w, r); no != nil {
		return no
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &refusal{http.StatusUnsupportedMediaType, "content-type", "Content-Type must be application/json in UTF-8", nil}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return &refusal{http.StatusUnsupportedMediaType, "content-encoding", "the body must not be compressed", nil}
	}
	if r.ContentLength > h.opts.MaxBody {
		// The body is not read: the connection cannot be used again.
		w.Header().Set("Connection", "close")
		return h.tooLarge()
	}
	return nil
}

func (h *handler) tooLarge() *refusal {
	return &refusal{http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body is larger than %d bytes: set max_alerts in the sender", h.opts.MaxBody), nil}
}

// read reads and decodes the body.
func (h *handler) read(w http.ResponseWriter, r *http.Request) (Message, *refusal) {
	// A writer that cannot set a deadline is a test's: it has no connection.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.opts.ReadTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return Message{}, &refusal{http.StatusServiceUnavailable, "read", "the body could not be read: repeat it", err}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return Message{}, h.tooLarge()
		}
		// 408 would fit, but Alertmanager does not repeat any 4xx.
		w.Header().Set("Connection", "close")
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return Message{}, &refusal{http.StatusServiceUnavailable, "slow-body", "the body came too slowly: repeat it", nil}
		}
		return Message{}, &refusal{http.StatusServiceUnavailable, "cut-body", "the body ended early: repeat it", nil}
	}
	h.inbox.metrics.bodyBytes.Observe(float64(len(body)))
	m, err := Decode(body)
	if e, ok := errors.AsType[*DecodeError](err); ok {
		return Message{}, &refusal{http.StatusBadRequest, e.Reason, e.What, nil}
	}
	return m, nil
}

// reply writes an answer. An error means that the sender has gone, which it
// will find out itself.
func reply(w http.ResponseWriter, status int, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}
