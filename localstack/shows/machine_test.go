package shows

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/host"
)

// head is the session's, as the table has it.
func (w *world) head() host.Head {
	w.Helper()
	head, err := w.table.Head(w.Context(), w.key())
	require.NoError(w, err)
	return head
}

// driven waits until the session's driver is in a state.
func (w *world) driven(status string) host.Head {
	w.Helper()
	var head host.Head
	eventually(w, "the driver is not "+status, func() bool {
		head = w.head()
		return head.Drive.Status == status
	})
	return head
}

// execution is the ARN of the execution that is one of the session's
// activations.
func (w *world) execution(epoch uint64) *string {
	w.Helper()
	name, err := sfn.ExecutionName(w.head().Inc, epoch)
	require.NoError(w, err)
	return aws.String(strings.Replace(w.Outputs["Machine"], ":stateMachine:", ":execution:", 1) + ":" + name)
}

// running says whether an execution is.
func (w *world) running(execution *string) bool {
	w.Helper()
	out, err := w.sfn.DescribeExecution(w.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: execution})
	require.NoError(w, err)
	return out.Status == types.ExecutionStatusRunning
}

// succeeds waits for an execution to come to its end.
func (w *world) succeeds(execution *string) {
	w.Helper()
	var out *awssfn.DescribeExecutionOutput
	eventually(w, "an execution does not end", func() (over bool) {
		var err error
		out, err = w.sfn.DescribeExecution(w.Context(), &awssfn.DescribeExecutionInput{ExecutionArn: execution})
		require.NoError(w, err)
		return out.Status != types.ExecutionStatusRunning
	})
	require.Equal(w, types.ExecutionStatusSucceeded, out.Status, "%s: %s", aws.ToString(out.Error), aws.ToString(out.Cause))
}

// history is all that an execution has recorded.
func (w *world) history(execution *string) []types.HistoryEvent {
	w.Helper()
	var all []types.HistoryEvent
	pages := awssfn.NewGetExecutionHistoryPaginator(w.sfn, &awssfn.GetExecutionHistoryInput{ExecutionArn: execution, IncludeExecutionData: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.Context())
		require.NoError(w, err)
		all = append(all, page.Events...)
	}
	return all
}

// rests holds a session to what a wait is: its head is parked, its execution is
// in the state Wait, and no task has come after.
func (w *world) rests() host.Head {
	w.Helper()
	head := w.driven(host.DriveParked)
	execution := w.execution(head.Drive.Epoch)
	require.True(w, w.running(execution))
	var history []types.HistoryEvent
	eventually(w, "something runs in the state Wait", func() bool {
		history = w.history(execution)
		// Not every target records that the function has ended, but it had when
		// it wrote the head.
		return slices.Contains([]types.HistoryEventType{types.HistoryEventTypeTaskSubmitted, types.HistoryEventTypeTaskScheduled}, history[len(history)-1].Type)
	})
	entered := states(history)
	require.Equal(w, "Wait", entered[len(entered)-1])
	require.Equal(w, head, w.head(), "the head has moved")
	return head
}

// states are the names of the states that were entered.
func states(history []types.HistoryEvent) []string {
	var names []string
	for _, e := range history {
		if e.StateEnteredEventDetails != nil {
			names = append(names, *e.StateEnteredEventDetails.Name)
		}
	}
	return names
}

// payloads are all data in a history: what went into states, tasks and
// functions, and what came out.
func payloads(history []types.HistoryEvent) []string {
	var all []string
	add := func(data ...*string) {
		for _, d := range data {
			all = append(all, aws.ToString(d))
		}
	}
	for _, e := range history {
		if d := e.ExecutionStartedEventDetails; d != nil {
			add(d.Input)
		}
		if d := e.ExecutionSucceededEventDetails; d != nil {
			add(d.Output)
		}
		if d := e.StateEnteredEventDetails; d != nil {
			add(d.Input)
		}
		if d := e.StateExitedEventDetails; d != nil {
			add(d.Output)
		}
		if d := e.TaskScheduledEventDetails; d != nil {
			add(d.Parameters)
		}
		if d := e.TaskSubmittedEventDetails; d != nil {
			add(d.Output)
		}
		if d := e.TaskSucceededEventDetails; d != nil {
			add(d.Output)
		}
		if d := e.TaskFailedEventDetails; d != nil {
			add(d.Cause)
		}
		if d := e.LambdaFunctionScheduledEventDetails; d != nil {
			add(d.Input)
		}
		if d := e.LambdaFunctionSucceededEventDetails; d != nil {
			add(d.Output)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// small holds all data of the session's activations so far to less than 4 KB,
// and none of it to have a text of the session's. It returns how many bytes the
// largest has.
func (w *world) small(text string) (largest int) {
	w.Helper()
	epochs := w.head().Drive.Epoch
	require.NotZero(w, epochs)
	for epoch := uint64(1); epoch <= epochs; epoch++ {
		all := payloads(w.history(w.execution(epoch)))
		require.NotEmpty(w, all, "a history without data shows nothing")
		for _, data := range all {
			require.Less(w, len(data), sfn.DataBytesMax, "%.1000s", data)
			require.NotContains(w, data, text)
			largest = max(largest, len(data))
		}
	}
	return largest
}

// blob is the content that a reference names, as the bucket has it.
func (w *world) blob(ref string) []byte {
	w.Helper()
	data, err := w.objects().GetBlob(w.Context(), w.key(), blob.Ref(ref))
	require.NoError(w, err)
	return data
}

// objects is the bucket as the functions see it.
func (w *world) objects() *s3.Store {
	w.Helper()
	store, err := s3.Open(w.Config, s3.Options{Bucket: w.Outputs["Bucket"], Log: w.table, Pointer: cloud.Pointer(w.table)})
	require.NoError(w, err)
	return store
}
