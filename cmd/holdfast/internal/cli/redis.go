package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/refusal"
)

// Where a command finds Redis if no flag says so. Secrets come from the environment alone: a command
// line can be read by everybody on the machine.
const (
	EnvRedis    = "HOLDFAST_REDIS"
	EnvUser     = "HOLDFAST_REDIS_USER"
	EnvPassword = "HOLDFAST_REDIS_PASSWORD"
	hidden      = "Redis" // the place of a URL that cannot be shown
)

// Redis is which Redis a command works on.
type Redis struct {
	url, cacert, cert, key, sni string
	insecure                    bool
	patience                    time.Duration
	Silence                     time.Duration // for how long a server may be silent at first; 0, or above 5 s: for 5 s
}

// Flags adds the flags that say so.
func (r *Redis) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&r.url, "redis", "", "`URL` or host:port, without a password; default $"+EnvRedis+" or localhost")
	SecondsVar(flags, &r.patience, "connect-timeout", 0, "keep trying for this long to reach a Redis that is not up yet")
	flags.StringVar(&r.cacert, "cacert", "", "`file` with certificates that may sign the server's")
	flags.StringVar(&r.cert, "cert", "", "`file` with the certificate of this client")
	flags.StringVar(&r.key, "key", "", "`file` with its private key")
	flags.StringVar(&r.sni, "sni", "", "`name` that the server's certificate must have")
	flags.BoolVar(&r.insecure, "insecure", false, "trust any certificate of the server")
}

// At is the Redis at a URL or a bare address.
func At(url string) *Redis { return &Redis{url: url} }

// URL is the one in use.
func (r *Redis) URL() string {
	text := cmp.Or(r.url, os.Getenv(EnvRedis), "redis://localhost:6379")
	if strings.Contains(text, "://") {
		return text
	}
	return "redis://" + text
}

// Place is the URL without what nobody else should see: also a password whose /, ? or # seems to end the host.
func (r *Redis) Place() string {
	u, err := url.Parse(r.URL())
	if err != nil || u.Scheme != "unix" && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return hidden
	}
	return u.Redacted()
}

// Options are the client's. A mistake in them is the caller's.
func (r *Redis) Options() (opt rueidis.ClientOption, err error) {
	if u, err := url.Parse(r.URL()); err == nil && u.User != nil && r.url != "" {
		if _, secret := u.User.Password(); secret {
			return opt, Usagef("--redis has a password, which everybody on this machine can read; put the URL into %s, "+
				"or the password into %s", EnvRedis, EnvPassword)
		}
	}
	opt, err = rueidis.ParseURL(r.URL())
	if unshown := r.Place() == hidden; err != nil || unshown {
		what := "--redis"
		if r.url == "" {
			what = EnvRedis
		}
		if unshown { // the error quotes the URL, with the password
			err = errors.New("this is no URL: check the port; in a password %25 is %, %40 is @, %2F is /, %3F is ?, %23 is #")
		}
		return opt, Usagef("%s: %w; want [redis://][user@]host[:port][/database], rediss:// with TLS, unix:///path; "+
			"?addr=host:port for each further node of a cluster or Sentinel, ?master_set=name with Sentinel", what, err)
	}
	if c := opt.TLSConfig; c != nil { // Sentinels as well; each server by its own name, not all by that of the first
		opt.Sentinel.TLSConfig, c.ServerName = c, ""
	}
	opt.Username = cmp.Or(os.Getenv(EnvUser), opt.Username)
	opt.Password = cmp.Or(os.Getenv(EnvPassword), opt.Password)
	opt.Sentinel.Username = os.Getenv("HOLDFAST_SENTINEL_USER")
	opt.Sentinel.Password = os.Getenv("HOLDFAST_SENTINEL_PASSWORD")
	opt.Dialer.Timeout = cmp.Or(opt.Dialer.Timeout, min(r.Silence, rueidis.DefaultDialTimeout))
	opt.Sentinel.Dialer.Timeout = opt.Dialer.Timeout
	opt.ClientName, opt.ClusterOption.ShardsRefreshInterval = "holdfast", 10*time.Second
	opt.PipelineMultiplex, opt.AlwaysPipelining, opt.DisableCache = -1, true, true // one connection, as a session has it
	return opt, r.secure(&opt)
}

// secure sets TLS up as the flags say.
func (r *Redis) secure(opt *rueidis.ClientOption) error {
	if r.cacert == "" && r.cert == "" && r.key == "" && r.sni == "" && !r.insecure {
		return nil
	}
	if opt.TLSConfig == nil {
		return Usagef("--cacert, --cert, --key, --sni and --insecure are for rediss:// URLs")
	}
	config := opt.TLSConfig.Clone()
	if r.cacert != "" {
		text, err := os.ReadFile(r.cacert)
		if err != nil {
			return Usagef("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return Usagef("--cacert: %s has no certificate", r.cacert)
		}
	}
	if (r.cert == "") != (r.key == "") {
		return Usagef("--cert and --key go together")
	}
	if r.cert != "" {
		pair, err := tls.LoadX509KeyPair(r.cert, r.key)
		if err != nil {
			return Usagef("--cert, --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	config.ServerName = r.sni
	config.InsecureSkipVerify = r.insecure //nolint:gosec // as asked
	opt.TLSConfig, opt.Sentinel.TLSConfig = config, config
	return nil
}

// Open opens a session.
func (r *Redis) Open(opts *holdfast.Options) (*holdfast.Session, error) {
	opt, err := r.Options()
	if err != nil {
		return nil, err
	}
	s, err := connect(r.patience, func() (*holdfast.Session, error) { return holdfast.Open(opt, opts) })
	return s, r.Unreached(err)
}

// Client returns a client that is set up as the flags say, and then by set if that is not nil.
func (r *Redis) Client(set func(*rueidis.ClientOption)) (rueidis.Client, error) {
	opt, err := r.Options()
	if err != nil {
		return nil, err
	}
	if set != nil {
		set(&opt)
	}
	client, err := r.NewClient(opt)
	return client, r.Unreached(err)
}

// NewClient connects.
func (r *Redis) NewClient(opt rueidis.ClientOption) (rueidis.Client, error) {
	return connect(r.patience, func() (rueidis.Client, error) {
		client, err := rueidis.NewClient(opt)
		if err != nil && client != nil {
			client.Close()
		}
		return client, err
	})
}

// connect does what connects, and does it again while patience lasts and the server may not be up yet: it does
// not answer, or has no data yet.
func connect[T any](patience time.Duration, do func() (T, error)) (T, error) {
	end := time.Now().Add(patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		made, err := do()
		left := time.Until(end)
		if err == nil || left <= 0 || refusal.Is(err) && !refusal.Says(err, "LOADING") {
			return made, err
		}
		time.Sleep(min(pause, left))
	}
}

// Unreached is the exit because no connection could be made, with a likely reason where there is one.
func (r *Redis) Unreached(err error) error {
	if err == nil {
		return nil
	}
	why := ""
	switch secure := strings.HasPrefix(r.URL(), "rediss://"); {
	case secure && TimedOut(err):
		why = "; it is silent: perhaps it does not speak TLS (redis://)"
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		why = "; it hangs up: perhaps it wants TLS (rediss://), has no room for clients (maxclients), or is in protected mode"
	}
	return Exit(ExitUnavailable, fmt.Errorf("%s: %w%s", r.Place(), err, why))
}

// Failure is err with the code that it ends a command with. An error that has none is one of this Redis. After a
// signal the code is the signal's, and nothing is said unless something may have been changed. An answer that is no,
// or that the call was wrong, stands as it is.
func (r *Redis) Failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	failure, coded := errors.AsType[*ExitError](err)
	if !coded {
		failure = &ExitError{Code: ExitUnavailable, Err: fmt.Errorf("%s: %w", r.Place(), err)}
		if errors.Is(err, holdfast.ErrUnknown) {
			failure.Code = ExitTempFail
		}
	}
	stopped := Stopped(ctx)
	switch {
	case stopped == nil, failure.Code == ExitNo, failure.Code == ExitUsage:
		return failure
	case failure.Code == ExitTempFail:
		return Exit(stopped.Code, failure.Err)
	}
	return Silent(stopped.Code)
}

// TimedOut reports whether err says that a server did not answer in time.
func TimedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
