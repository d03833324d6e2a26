package localstack_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
	"github.com/perdure/perdure/internal/doctor"
	"github.com/perdure/perdure/localstack/target"
)

// The doctor finds every part of the stack, and its API, by the stack's name.
func TestTheDoctorFindsTheStackWell(t *testing.T) {
	t.Parallel()
	stack := target.Deployed(t)
	// Its machine is named after it.
	arn := stack.Outputs["Machine"]
	name := strings.TrimSuffix(arn[strings.LastIndexByte(arn, ':')+1:], "-session")
	looked := map[string]string{}
	for _, c := range doctor.AWS(t.Context(), awsaccount.New(stack.Config), name).Checks {
		if strings.HasPrefix(c.Name, "stack") {
			looked[c.Name] = c.Status
			if c.Name != "stack: inbox" { // another test has a message die
				require.Equal(t, doctor.OK, c.Status, "%+v", c)
			}
		}
		require.NotContains(t, c.Text+c.Do, stack.Key)
	}
	for _, part := range []string{
		"stack", "stack: table", "stack: bucket", "stack: state machine", "stack: functions", "stack: inbox", "stack: work queue", "stack: admin key", "stack: API",
	} {
		require.Contains(t, looked, part)
	}
}
