package sharing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

func TestWhatNobodyWantsIsLeftOut(t *testing.T) {
	const next = "*2\r\n:1\r\n$2\r\nok\r\n"
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n",
		"$5\r\n\r\n*1\n\r\n", "$0\r\n\r\n", "$-1\r\n", "=6\r\ntxt:ab\r\n", "!3\r\nERR\r\n",
		"*0\r\n", "*-1\r\n", "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n+x\r\n", "~1\r\n:1\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
		"|1\r\n+ttl\r\n:1\r\n:2\r\n", ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n:1\r\n",
	} {
		for size := 1; size <= len(reply+reply+next); size++ {
			var owed sharing.Owed
			owed.Add()
			owed.Add()
			var left strings.Builder
			for stream := reply + reply + next; stream != ""; {
				some := stream[:min(size, len(stream))]
				stream = stream[len(some):]
				wanted, err := owed.Skip([]byte(some))
				require.NoError(t, err)
				left.Write(wanted)
			}
			assert.True(t, owed.None())
			assert.Equal(t, next, left.String(), "%q by %d", reply, size)
		}
	}
}

func TestWhatIsNoReplyIsNotLeftOut(t *testing.T) {
	for _, wrong := range []string{"\r\n", "*\r\n", "*x\r\n", "$many\r\n"} {
		var owed sharing.Owed
		owed.Add()
		_, err := owed.Skip([]byte(wrong))
		require.Error(t, err, wrong)
	}
}
