package slack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/regpath/diagnose/notify"
)

// CommandsConfig says who may order what by chat.
type CommandsConfig struct {
	// Secret is the app's signing secret: only Slack knows it besides us.
	Secret notify.Secret
	// Users and Channels hold the IDs of those who may, and of the channels in
	// which everybody may. At least one is needed.
	Users, Channels []string
	// Do does what was ordered and returns what to answer to the one who did. It
	// has to return at once: Slack waits three seconds, and then asks again.
	Do func(Order) string
	// Logger is told of orders that are refused; nil for silence.
	Logger *slog.Logger
}

// Order is a slash command or the press of a button, by somebody who may.
type Order struct {
	User, Channel string
	// Words are what followed the slash command. Untrusted.
	Words []string
	// Button is which one was pressed, empty for a slash command; Incident is whose,
	// and Message the ts of the message that it stands in.
	Button            Button
	Incident, Message string
}

// Button is a button of a report.
type Button string

// The buttons.
const (
	ButtonAgain    Button = "diagnose_again"
	ButtonEvidence Button = "diagnose_evidence"
	ButtonRight    Button = "diagnose_right"
	ButtonWrong    Button = "diagnose_wrong"
)

const (
	// maxOrder bounds the body of a request; Slack's are a few kilobytes.
	maxOrder = 1 << 20
	// remembered is how long a request is known by its signature. Slack's are
	// refused after five minutes, so that none can be played again.
	remembered = 10 * time.Minute
)

// Commands takes orders from Slack: the request URL of the slash command and that
// of interactivity can both point here. An order counts only with a fresh and
// valid signature over the body, counts once however often it comes, and only
// from somebody who may give it.
type Commands struct {
	c    CommandsConfig
	mu   sync.Mutex
	seen map[[sha256.Size]byte]answered
}

// answered is what an order was answered, for when Slack repeats it.
type answered struct {
	at   time.Time
	text string
}

var _ http.Handler = (*Commands)(nil)

// NewCommands returns a handler for orders.
func NewCommands(c CommandsConfig) (*Commands, error) {
	switch {
	case strings.TrimSpace(c.Secret.Reveal()) == "":
		return nil, errors.New("slack: no signing secret")
	case len(c.Users)+len(c.Channels) == 0:
		return nil, errors.New("slack: nobody may give orders: name users or channels, by their IDs")
	case c.Logger == nil:
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Commands{c: c, seen: map[[sha256.Size]byte]answered{}}, nil
}

// ServeHTTP implements http.Handler.
func (h *Commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	if err := h.verify(r.Header, body); err != nil {
		h.c.Logger.WarnContext(r.Context(), "chat order refused", "remote", r.RemoteAddr, "err", err)
		http.Error(w, "not signed by Slack", http.StatusUnauthorized)
		return
	}
	// What is in the query is not signed.
	r.URL.RawQuery = ""
	r.Body = io.NopCloser(bytes.NewReader(body))
	order, err := parseOrder(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, order, h.once(r.Header, body, order))
}

// verify checks signature and age, in constant time. slack-go takes requests of
// up to five minutes ago, or ahead.
func (h *Commands) verify(header http.Header, body []byte) error {
	v, err := slack.NewSecretsVerifier(header, h.c.Secret.Reveal())
	if err != nil {
		return err
	}
	if _, err := v.Write(body); err != nil {
		return err
	}
	return v.Ensure()
}

// errOrder is why a request that Slack signed makes no sense to us.
var errOrder = errors.New("neither a slash command nor a button of ours")

// parseOrder reads a request whose signature is good.
func parseOrder(r *http.Request) (Order, error) {
	if err := r.ParseForm(); err != nil {
		return Order{}, errOrder
	}
	if r.PostForm.Has("payload") {
		var p slack.InteractionCallback
		if err := json.Unmarshal([]byte(r.PostForm.Get("payload")), &p); err != nil {
			return Order{}, errOrder
		}
		if p.Type != slack.InteractionTypeBlockActions || len(p.ActionCallback.BlockActions) != 1 {
			return Order{}, errOrder
		}
		a := p.ActionCallback.BlockActions[0]
		b := Button(a.ActionID)
		if !slices.Contains([]Button{ButtonAgain, ButtonEvidence, ButtonRight, ButtonWrong}, b) {
			return Order{}, errOrder
		}
		return Order{
			User: p.User.ID, Channel: cmp.Or(p.Container.ChannelID, p.Channel.ID), Button: b,
			Incident: a.Value, Message: cmp.Or(p.Container.MessageTs, p.Message.Timestamp),
		}, nil
	}
	if r.PostForm.Get("command") == "" {
		return Order{}, errOrder
	}
	return Order{User: r.PostForm.Get("user_id"), Channel: r.PostForm.Get("channel_id"), Words: strings.Fields(r.PostForm.Get("text"))}, nil
}

// once carries an order out unless it has been already, and returns the answer.
func (h *Commands) once(header http.Header, body []byte, o Order) string {
	key := sha256.Sum256(append([]byte(header.Get("X-Slack-Request-Timestamp")+":"), body...))
	h.mu.Lock()
	defer h.mu.Unlock() // Do returns at once
	now := time.Now()
	for k, a := range h.seen {
		if now.Sub(a.at) > remembered {
			delete(h.seen, k)
		}
	}
	if a, ok := h.seen[key]; ok {
		return a.text
	}
	text := "You may not do this: ask whoever runs diagnose to add you, or this channel."
	if slices.Contains(h.c.Users, o.User) || slices.Contains(h.c.Channels, o.Channel) {
		text = h.c.Do(o)
	} else {
		h.c.Logger.Warn("chat order refused", "user", notify.Line(o.User, 40), "channel", notify.Line(o.Channel, 40), "err", "neither user nor channel is on the list")
	}
	h.seen[key] = answered{now, text}
	return text
}

// reply acknowledges an order. Only a slash command takes an answer this way;
// what a button says goes by Bot.Whisper.
func reply(w http.ResponseWriter, o Order, text string) {
	if o.Button != "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"response_type": "ephemeral", "text": clip(defuse(text), maxText)})
}
