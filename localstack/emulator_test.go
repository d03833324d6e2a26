package localstack_test

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// What runs code for whoever asks is nobody's business but this machine's.
func TestTheEmulatorListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(target.Emulator(t).Endpoint)
	require.NoError(t, err)
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, address := range addresses {
		ip := address.(*net.IPNet).IP
		if ip.IsLoopback() || ip.To4() == nil {
			continue
		}
		var dialer net.Dialer
		connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(ip.String(), at.Port()))
		if err == nil {
			require.NoError(t, connection.Close())
		}
		require.Error(t, err, "it answers at %s", ip)
	}
}

// On AWS a function sees nothing of the machine of whoever deployed it: a test
// that passes because it does here would be worth nothing. And whatever a
// function has started ends with the emulator.
func TestFunctionsOfTheEmulator(t *testing.T) { //nolint:tparallel // its end is what is looked at afterwards
	t.Parallel()
	var said struct {
		PID     string
		Environ map[string]string
	}
	t.Run("see nothing of this machine", func(t *testing.T) {
		at := target.Emulator(t)
		functions := lambda.NewFromConfig(at.Config)
		_, err := functions.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
			FunctionName: aws.String("look"), Runtime: types.RuntimePython312, Handler: aws.String("index.handler"), Role: aws.String("arn:aws:iam::000000000000:role/r"),
			Code: &types.FunctionCode{ZipFile: zipped(t, "index.py", []byte("import os\ndef handler(event, context):\n    return {'pid': str(os.getpid()), 'environ': dict(os.environ)}\n"))},
		})
		require.NoError(t, err)
		got, err := functions.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("look")})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(got.Payload, &said))
		require.Equal(t, at.Endpoint, said.Environ["AWS_ENDPOINT_URL"])
		for _, entry := range os.Environ() {
			name, value, _ := strings.Cut(entry, "=")
			if name != "PATH" && name != "LANG" && !strings.HasPrefix(name, "AWS_") && value != "" {
				require.NotEqual(t, value, said.Environ[name], name)
			}
		}
	})
	if said.PID == "" {
		return // it was skipped, and says why
	}
	require.Eventually(t, func() bool { return !runs(t, said.PID) }, ceiling, 50*time.Millisecond, "the function's process outlives the emulator")
}

// runs says whether there is a process; one that has ended and waits for its
// parent to look at it is none.
func runs(t *testing.T, pid string) bool {
	t.Helper()
	require.NotEmpty(t, pid)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this machine has no /proc to look at")
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
