package localstack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// readers ask a service itself for a resource that CloudFormation says it has
// made, by type, and hold what it answers against the template.
var readers = map[string]func(*reading, resource){
	"AWS::ApiGatewayV2::Api":           (*reading).api,
	"AWS::ApiGatewayV2::Integration":   (*reading).integration,
	"AWS::ApiGatewayV2::Route":         (*reading).route,
	"AWS::ApiGatewayV2::Stage":         (*reading).stage,
	"AWS::CloudWatch::Alarm":           (*reading).alarm,
	"AWS::CloudWatch::Dashboard":       (*reading).dashboard,
	"AWS::DynamoDB::Table":             (*reading).table,
	"AWS::Events::Rule":                (*reading).rule,
	"AWS::IAM::Policy":                 (*reading).policy,
	"AWS::IAM::Role":                   (*reading).role,
	"AWS::Lambda::EventInvokeConfig":   (*reading).eventInvoke,
	"AWS::Lambda::EventSourceMapping":  (*reading).mapping,
	"AWS::Lambda::Function":            (*reading).function,
	"AWS::Lambda::Permission":          (*reading).permission,
	"AWS::Lambda::Url":                 (*reading).url,
	"AWS::Logs::LogGroup":              (*reading).logGroup,
	"AWS::S3::Bucket":                  (*reading).bucket,
	"AWS::S3::BucketPolicy":            (*reading).bucketPolicy,
	"AWS::SNS::Topic":                  (*reading).topic,
	"AWS::SNS::TopicPolicy":            (*reading).topicPolicy,
	"AWS::SQS::Queue":                  (*reading).queue,
	"AWS::SQS::QueuePolicy":            (*reading).queuePolicy,
	"AWS::SecretsManager::Secret":      (*reading).secret,
	"AWS::StepFunctions::StateMachine": (*reading).machine,
	"AWS::XRay::SamplingRule":          (*reading).sampling,
}

// TestWhatWasDeployedIsThere reads the stack back: a target may say of a resource
// that it was made, and have made none, or leave out what the template says of
// it. What a target is known to skip is a table, and that is held to be skipped.
func TestWhatWasDeployedIsThere(t *testing.T) { //nolint:paralleltest // tests beside it change for a while what it reads
	r := read(t, target.Deployed(t))
	for _, id := range slices.Sorted(maps.Keys(r.all)) {
		is := r.all[id]
		if ask := readers[is.kind]; ask != nil {
			ask(r, is)
		} else {
			t.Errorf("%s: nobody asks for a %s", id, is.kind)
		}
	}
	r.leftOut()
	skipped := r.stack.Can.SkippedTypes()
	for _, what := range slices.Sorted(maps.Keys(r.facts)) {
		switch f, why := r.facts[what], skipped[what]; {
		case why == "" && len(f.wrong) > 0:
			t.Errorf("%s, %d of %d:\n  %s", what, len(f.wrong), f.asked, strings.Join(f.wrong, "\n  "))
		case why != "" && len(f.wrong) < f.asked:
			t.Errorf("%s: the table says that %s skips it (%s), and %d of %d are there", what, r.stack.Can.Name, why, f.asked-len(f.wrong), f.asked)
		}
	}
	for what, why := range skipped {
		require.Contains(t, r.facts, what, "the stack has none, and the table says that %s skips it: %s", r.stack.Can.Name, why)
	}
}

// The comparison itself: what it lets pass is not there on AWS either, or is there
// in other words.
func TestAnAnswerCoversATemplate(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	for name, c := range map[string]struct {
		want, got any
		covers    bool
	}{
		"more in the answer":          {object{"A": 1.0}, object{"a": "1.0", "b": 2.0}, true},
		"less in the answer":          {object{"A": 1.0, "B": 2.0}, object{"a": 1.0}, false},
		"another number":              {object{"A": 1.0}, object{"A": "10"}, false},
		"JSON within text":            {object{"A": object{"B": "x"}}, object{"A": `{"B":"x"}`}, true},
		"other JSON within text":      {object{"A": object{"B": "x"}}, object{"A": `{"B":"y"}`}, false},
		"a list in another order":     {[]any{"a", "b"}, []any{"b", "a"}, true},
		"a longer list":               {[]any{"a"}, []any{"a", "b"}, false},
		"a list of one":               {[]any{"a"}, "a", true},
		"one of a list":               {"a", []any{"a"}, true},
		"a name in an ARN":            {part("q"), "arn:aws:sqs:us-east-1:1:q", true},
		"a name in a group's ARN":     {part("/q"), "arn:aws:logs:us-east-1:1:log-group:/q:*", true},
		"the end of another name":     {part("q"), "arn:aws:sqs:us-east-1:1:pq", false},
		"another name in an ARN":      {part("q"), "arn:aws:sqs:us-east-1:1:p", false},
		"a Ref that is more":          {whole("q"), "qq", false},
		"something that is empty":     {anything{}, nil, false},
		"something":                   {anything{}, "https://x", true},
		"false, and no word of it":    {false, nil, true},
		"true, and no word of it":     {true, nil, false},
		"text, and no word of it":     {"x", nil, false},
		"nothing where much was said": {object{"A": object{"B": "x"}}, object{"A": nil}, false},
	} {
		require.Equal(t, c.covers, covers(c.want, c.got), name)
	}
}

// resource is one of the stack's: as CloudFormation lists it, with what the
// template says of it.
type resource struct {
	id, physical, kind string
	says               map[string]any
}

// reading is a stack that is being read back.
type reading struct {
	*testing.T

	stack *target.Stack
	all   map[string]resource // by logical id
	facts map[string]*fact    // by type, or type.Property
}

// fact is what was found of a type, or of one of its properties.
type fact struct {
	asked int
	wrong []string
}

// read takes the stack's resources and its template.
func read(t *testing.T, stack *target.Stack) *reading {
	t.Helper()
	r := &reading{T: t, stack: stack, all: map[string]resource{}, facts: map[string]*fact{}}
	client := cloudformation.NewFromConfig(stack.Config)
	var name *string
	for stacks := cloudformation.NewDescribeStacksPaginator(client, &cloudformation.DescribeStacksInput{}); name == nil; {
		require.True(t, stacks.HasMorePages(), "no stack has this table")
		page, err := stacks.NextPage(t.Context())
		require.NoError(t, err)
		for _, s := range page.Stacks {
			if slices.ContainsFunc(s.Outputs, func(o cfntypes.Output) bool {
				return aws.ToString(o.OutputKey) == "Table" && aws.ToString(o.OutputValue) == stack.Outputs["Table"]
			}) {
				name = s.StackName
			}
		}
	}
	pages := cloudformation.NewListStackResourcesPaginator(client, &cloudformation.ListStackResourcesInput{StackName: name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, s := range page.StackResourceSummaries {
			require.Contains(t, []cfntypes.ResourceStatus{cfntypes.ResourceStatusCreateComplete, cfntypes.ResourceStatusUpdateComplete}, s.ResourceStatus, *s.LogicalResourceId)
			r.all[*s.LogicalResourceId] = resource{id: *s.LogicalResourceId, physical: aws.ToString(s.PhysicalResourceId), kind: *s.ResourceType}
		}
	}
	got, err := client.GetTemplate(t.Context(), &cloudformation.GetTemplateInput{StackName: name})
	require.NoError(t, err)
	template := templateOf(t, []byte(*got.TemplateBody))
	require.ElementsMatch(t, slices.Collect(maps.Keys(template)), slices.Collect(maps.Keys(r.all)))
	for id, is := range r.all {
		is.says, _ = r.resolve(template[id].Properties).(map[string]any)
		r.all[id] = is
	}
	return r
}

type described struct {
	Type       string
	Properties map[string]any
}

func templateOf(t *testing.T, text []byte) map[string]described {
	t.Helper()
	var template struct{ Resources map[string]described }
	require.NoError(t, json.Unmarshal(text, &template))
	return template.Resources
}

// leftOut finds types that the stack has on AWS and that were not even asked for
// on this target.
func (r *reading) leftOut() {
	r.Helper()
	if r.stack.Endpoint == "" {
		return // its owner has chosen
	}
	root, err := target.Root()
	require.NoError(r, err)
	text, err := os.ReadFile(filepath.Join(root, "infra", "testdata", "perdure.template.json"))
	require.NoError(r, err)
	for _, d := range templateOf(r.T, text) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.all)), func(is resource) bool { return is.kind == d.Type }) {
			r.note(d.Type, errors.New("it is not in the stack that is deployed here"))
		}
	}
}

// note keeps that something is so, or is not.
func (r *reading) note(what string, wrong error) {
	f := r.facts[what]
	if f == nil {
		f = &fact{}
		r.facts[what] = f
	}
	f.asked++
	if wrong != nil {
		f.wrong = append(f.wrong, wrong.Error())
	}
}

// there keeps whether a resource was found.
func (r *reading) there(is resource, err error) bool {
	if err != nil {
		err = fmt.Errorf("%s (%s): %w", is.id, is.physical, err)
	}
	r.note(is.kind, err)
	return err == nil
}

// has keeps whether a property is what the template says.
func (r *reading) has(is resource, property string, got any) {
	r.Helper()
	want, says := is.says[property]
	if !says {
		return
	}
	var wrong error
	if got = plainly(r.T, got); !covers(want, got) {
		wrong = fmt.Errorf("%s: want %s, got %s", is.id, text(want), text(got))
	}
	r.note(is.kind+"."+property, wrong)
}

// hasAll keeps whether all properties are what the template says, but those that
// are not part of the answer.
func (r *reading) hasAll(is resource, answer any, but ...string) {
	r.Helper()
	got := plainly(r.T, answer)
	for property := range is.says {
		if !slices.Contains(append(but, "Tags"), property) {
			r.has(is, property, dig(got, property))
		}
	}
}

// Values of a template whose references are followed.
type (
	whole    string   // what a Ref is
	part     string   // the name in an ARN
	anything struct{} // something, which may not be empty
)

// resolve follows references to other resources.
func (r *reading) resolve(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.resolve(v[i])
		}
		return out
	case map[string]any:
		if to, ok := v["Ref"].(string); ok {
			return r.refer(to)
		}
		if to, ok := v["Fn::GetAtt"].([]any); ok {
			id, attribute := text(to[0]), text(to[1])
			switch is := r.all[id]; {
			case strings.HasSuffix(attribute, "Arn"):
				return part(is.name())
			case attribute == "QueueName":
				return whole(is.name())
			default:
				return anything{}
			}
		}
		if to, ok := v["Fn::Join"].([]any); ok {
			return join(text(to[0]), r.resolve(to[1]))
		}
		out := map[string]any{}
		for key := range v {
			if out[key] = r.resolve(v[key]); strings.HasPrefix(key, "Fn::") {
				return anything{}
			}
		}
		return out
	default:
		return v
	}
}

func (r *reading) refer(to string) any {
	switch to {
	case "AWS::Region":
		return r.stack.Config.Region
	case "AWS::Partition", "AWS::AccountId":
		of := strings.Split(r.stack.Outputs["Machine"], ":")
		return map[string]string{"AWS::Partition": of[1], "AWS::AccountId": of[4]}[to]
	}
	if is, ok := r.all[to]; ok {
		return whole(is.physical)
	}
	return anything{}
}

// join puts text together, as far as it is known.
func join(between string, parts any) any {
	var out []string
	begun := true
	for i, v := range listed(parts) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case whole:
			out = append(out, string(v))
		case part:
			if i > 0 {
				return anything{}
			}
			out, begun = append(out, string(v)), false
		default:
			return anything{}
		}
	}
	all := strings.Join(out, between)
	if begun {
		return whole(all)
	}
	return part(all)
}

// name is what ARNs, URLs and composite ids of a resource end with.
func (is resource) name() string {
	if is.kind == "AWS::Logs::LogGroup" {
		return is.physical // has slashes
	}
	return is.physical[strings.LastIndexAny(is.physical, ":/|")+1:]
}

// covers says whether an answer has all that the template wants; it may have
// more. Lists have no order, one thing is a list of it, and keys begin with a
// small letter in some APIs.
func covers(want, got any) bool {
	if g, ok := got.(string); ok && strings.HasPrefix(g, "{") {
		if _, structured := want.(map[string]any); structured {
			_ = json.Unmarshal([]byte(g), &got) // what is no JSON does not cover it
		}
	}
	switch w := want.(type) {
	case map[string]any:
		for key := range w {
			if !covers(w[key], dig(got, key)) {
				return false
			}
		}
		return true
	case []any:
		g := listed(got)
		return len(g) == len(w) && !slices.ContainsFunc(w, func(one any) bool {
			return !slices.ContainsFunc(g, func(other any) bool { return covers(one, other) })
		})
	case anything:
		return text(got) != ""
	case part:
		before, ends := strings.CutSuffix(strings.TrimSuffix(text(got), ":*"), string(w))
		return ends && (before == "" || strings.ContainsAny(before[len(before)-1:], ":/"))
	case bool:
		if !w && got == nil {
			return true
		}
	}
	if one := listed(got); len(one) == 1 {
		got = one[0]
	}
	return same(text(want), text(got))
}

func listed(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

func same(a, b string) bool {
	x, notX := strconv.ParseFloat(a, 64)
	y, notY := strconv.ParseFloat(b, 64)
	return a == b || notX == nil && notY == nil && x == y
}

// plainly is an answer as JSON has it.
func plainly(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case whole:
		return string(v)
	case part:
		return "…" + string(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	data, _ := json.Marshal(v) // it came from JSON
	return string(data)
}

// dig goes down into an answer, by names in any case and into first members of
// lists.
func dig(v any, path ...string) any {
	for _, name := range path {
		if l, ok := v.([]any); ok && len(l) > 0 {
			v = l[0]
		}
		m, _ := v.(map[string]any)
		v = nil
		for key := range m {
			if strings.EqualFold(key, name) {
				v = m[key]
			}
		}
	}
	return v
}
