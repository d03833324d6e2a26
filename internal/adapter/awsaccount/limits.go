package awsaccount

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
)

// Quota is a limit as Service Quotas knows it.
type Quota struct {
	Service    string
	Name       string
	Code       string
	Value      float64
	Adjustable bool
	// Default says that the account has no value of its own: it is what AWS gives
	// to all, and the account may have less.
	Default bool
}

// Quotas lists the limits of a service: those of the account, and where it has
// none of its own the default.
func (a *Account) Quotas(ctx context.Context, service string) ([]Quota, error) {
	var out []Quota
	seen := map[string]bool{}
	take := func(list []types.ServiceQuota, isDefault bool) {
		for _, q := range list {
			code := aws.ToString(q.QuotaCode)
			if q.Value == nil || seen[code] {
				continue
			}
			seen[code] = true
			out = append(out, Quota{
				Service: service, Name: aws.ToString(q.QuotaName), Code: code, Value: *q.Value, Adjustable: q.Adjustable, Default: isDefault,
			})
		}
	}
	own := servicequotas.NewListServiceQuotasPaginator(a.quotas, &servicequotas.ListServiceQuotasInput{ServiceCode: &service})
	for own.HasMorePages() {
		page, err := own.NextPage(ctx)
		if err != nil {
			return nil, fault("servicequotas:ListServiceQuotas", err)
		}
		take(page.Quotas, false)
	}
	all := servicequotas.NewListAWSDefaultServiceQuotasPaginator(a.quotas, &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: &service})
	for all.HasMorePages() {
		page, err := all.NextPage(ctx)
		if err != nil {
			return out, fault("servicequotas:ListAWSDefaultServiceQuotas", err)
		}
		take(page.Quotas, true)
	}
	return out, nil
}

// Concurrency is how many functions may run at once, and what of that no
// function has for itself.
type Concurrency struct {
	Account    int64
	Unreserved int64
}

// Concurrency reads Lambda's own account of it.
func (a *Account) Concurrency(ctx context.Context) (Concurrency, error) {
	out, err := a.functions.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return Concurrency{}, fault("lambda:GetAccountSettings", err)
	}
	var c Concurrency
	if l := out.AccountLimit; l != nil {
		c = Concurrency{Account: int64(l.ConcurrentExecutions), Unreserved: int64(aws.ToInt32(l.UnreservedConcurrentExecutions))}
	}
	return c, nil
}

// Throughput is what DynamoDB allows, in capacity units a second.
type Throughput struct {
	TableRead, TableWrite int64
}

// Throughput reads DynamoDB's own account of it.
func (a *Account) Throughput(ctx context.Context) (Throughput, error) {
	out, err := a.tables.DescribeLimits(ctx, &dynamodb.DescribeLimitsInput{})
	if err != nil {
		return Throughput{}, fault("dynamodb:DescribeLimits", err)
	}
	return Throughput{TableRead: aws.ToInt64(out.TableMaxReadCapacityUnits), TableWrite: aws.ToInt64(out.TableMaxWriteCapacityUnits)}, nil
}
