package goredis_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/push"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/goredis"
)

// A kind of options, in which some fields are set so that others count.
type kind struct {
	name    string
	options func() any // a pointer to them
	convert func(any) (rueidis.ClientOption, error)
	refused []string // besides always
	ignored []string // which others do not ignore
}

func of[O *redis.Options | *redis.UniversalOptions | *redis.ClusterOptions | *redis.FailoverOptions](o any) (
	rueidis.ClientOption, error,
) {
	return goredis.ClientOption(o.(O))
}

var (
	always    = []string{"OnConnect", "Limiter"}
	sentinels = []string{
		"CredentialsProvider", "CredentialsProviderContext", "StreamingCredentialsProvider", "ReplicaOnly", "ReadOnly",
	}
)

var kinds = []kind{
	{"Options", func() any {
		return &redis.Options{Addr: "a:1", Password: "p", ReadTimeout: time.Second}
	}, of[*redis.Options], nil, nil},
	{"ClusterOptions", func() any {
		return &redis.ClusterOptions{Addrs: []string{"a:1"}, Password: "p", ReadTimeout: time.Second}
	}, of[*redis.ClusterOptions], []string{"NewClient", "ClusterSlots"}, []string{"ReadOnly"}},
	{"FailoverOptions", func() any {
		return &redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{"a:1"}, Password: "p", SentinelPassword: "p", ReadTimeout: time.Second,
		}
	}, of[*redis.FailoverOptions], sentinels, nil},
	{"UniversalOptions, one server", func() any {
		return &redis.UniversalOptions{Addrs: []string{"a:1"}, Password: "p", ReadTimeout: time.Second}
	}, of[*redis.UniversalOptions], nil, []string{"ReadOnly", "SentinelUsername", "SentinelPassword"}},
	{"UniversalOptions, a cluster", func() any {
		return &redis.UniversalOptions{Addrs: []string{"a:1", "b:1"}, Password: "p", ReadTimeout: time.Second}
	}, of[*redis.UniversalOptions], nil, []string{"DB", "ReadOnly", "SentinelUsername", "SentinelPassword"}},
	{"UniversalOptions, sentinels", func() any {
		return &redis.UniversalOptions{
			Addrs: []string{"a:1"}, MasterName: "m", Password: "p", SentinelPassword: "p", ReadTimeout: time.Second,
		}
	}, of[*redis.UniversalOptions], sentinels, []string{"IsClusterMode"}},
}

// counts has, by field, what becomes of its sample.
var counts = map[string]func(rueidis.ClientOption) bool{
	"Addr":                         func(c rueidis.ClientOption) bool { return c.InitAddress[0] == "x" },
	"Addrs":                        func(c rueidis.ClientOption) bool { return c.InitAddress[0] == "x" },
	"SentinelAddrs":                func(c rueidis.ClientOption) bool { return c.InitAddress[0] == "x" },
	"MasterName":                   func(c rueidis.ClientOption) bool { return c.Sentinel.MasterSet == "x" },
	"IsClusterMode":                func(c rueidis.ClientOption) bool { return !c.ForceSingleClient },
	"Network":                      func(c rueidis.ClientOption) bool { return c.DialCtxFn != nil },
	"Dialer":                       func(c rueidis.ClientOption) bool { return c.DialCtxFn != nil },
	"TLSConfig":                    tlsEverywhere,
	"Username":                     func(c rueidis.ClientOption) bool { return c.Username == "x" },
	"Password":                     func(c rueidis.ClientOption) bool { return c.Password == "x" },
	"SentinelUsername":             func(c rueidis.ClientOption) bool { return c.Sentinel.Username == "x" },
	"SentinelPassword":             func(c rueidis.ClientOption) bool { return c.Sentinel.Password == "x" },
	"CredentialsProvider":          func(c rueidis.ClientOption) bool { return c.AuthCredentialsFn != nil },
	"CredentialsProviderContext":   func(c rueidis.ClientOption) bool { return c.AuthCredentialsFn != nil },
	"StreamingCredentialsProvider": func(c rueidis.ClientOption) bool { return c.AuthCredentialsFn != nil },
	"DB":                           func(c rueidis.ClientOption) bool { return c.SelectDB == 2 },
	"ClientName":                   namedEverywhere,
	"DisableIdentity":              namesNoLibrary,
	"DisableIndentity":             namesNoLibrary,
	"Protocol":                     func(c rueidis.ClientOption) bool { return c.AlwaysRESP2 },
	"DialTimeout":                  soonEverywhere,
	"ReadTimeout":                  func(c rueidis.ClientOption) bool { return c.ConnWriteTimeout == 2*time.Second },
	"WriteTimeout":                 func(c rueidis.ClientOption) bool { return c.ConnWriteTimeout == 2*time.Second },
}

func tlsEverywhere(c rueidis.ClientOption) bool {
	return c.TLSConfig != nil && (c.Sentinel.MasterSet == "" || c.Sentinel.TLSConfig != nil)
}

func namedEverywhere(c rueidis.ClientOption) bool {
	return c.ClientName == "x" && (c.Sentinel.MasterSet == "" || c.Sentinel.ClientName == "x")
}

func soonEverywhere(c rueidis.ClientOption) bool {
	const soon = 2 * time.Second
	return c.Dialer.Timeout == soon && (c.Sentinel.MasterSet == "" || c.Sentinel.Dialer.Timeout == soon)
}

func namesNoLibrary(c rueidis.ClientOption) bool {
	return c.ClientSetInfo != nil && len(c.ClientSetInfo) == 0
}

// Every field that go-redis has counts, is refused by its name, or is ignored, and the package's page says so. A field
// that is new in go-redis is in no section of the page: it needs a decision.
func TestEveryFieldIsDecidedOn(t *testing.T) {
	page, err := os.ReadFile("goredis.go")
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(page), "\npackage ")
	sections := strings.Split(head, "// # ")
	require.Len(t, sections, 4)
	names := func(section int, field string) bool {
		return regexp.MustCompile(`\b` + field + `\b`).MatchString(sections[section])
	}
	for _, k := range kinds {
		plain, err := k.convert(k.options())
		require.NoError(t, err)
		for field := range exported(k.options()) {
			o := k.options()
			set(t, o, field)
			c, err := k.convert(o)
			switch {
			case slices.Contains(always, field) || slices.Contains(k.refused, field):
				assert.True(t, names(2, field), "the page does not say that %s is refused", field)
				assert.ErrorContains(t, err, "goredis: "+field+" is set", k.name)
				assert.ErrorContains(t, err, ": ", k.name)
				assert.Equal(t, rueidis.ClientOption{}, c)
			case counts[field] != nil && !slices.Contains(k.ignored, field):
				assert.True(t, names(1, field), "the page does not say that %s counts", field)
				require.NoError(t, err, field)
				assert.True(t, counts[field](c), "%s of %s", field, k.name)
			default:
				assert.True(t, names(3, field) || slices.Contains(k.ignored, field) && names(1, field),
					"no section of the page has %s of %s", field, k.name)
				require.NoError(t, err, field)
				assert.Equal(t, plain, c, "%s of %s", field, k.name)
			}
		}
	}
}

func exported(options any) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range reflect.TypeOf(options).Elem().Fields() {
		if f.IsExported() {
			fields[f.Name] = f.Type
		}
	}
	return fields
}

// Something is all that a field of go-redis may ask for.
type something struct {
	redis.Limiter
	redis.Cache
	auth.StreamingCredentialsProvider
	push.NotificationProcessor
}

func (something) Next(int) int { return 0 }

// set gives the field a sample: 2, "x", true, something.
func set(t *testing.T, options any, field string) {
	t.Helper()
	f := reflect.ValueOf(options).Elem().FieldByName(field)
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Int:
		f.SetInt(2)
	case reflect.Int64:
		f.SetInt(int64(2 * time.Second))
	case reflect.String:
		f.SetString("x")
	case reflect.Slice:
		f.Set(reflect.ValueOf([]string{"x"}))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case reflect.Func:
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Interface:
		f.Set(reflect.ValueOf(something{}))
	default:
		require.FailNow(t, "no sample", "%s is a %s", field, f.Type())
	}
}
