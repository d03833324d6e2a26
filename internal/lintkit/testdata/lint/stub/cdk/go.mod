module github.com/aws/aws-cdk-go

go 1.26.0
