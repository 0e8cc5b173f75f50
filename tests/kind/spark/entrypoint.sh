#!/bin/bash
# What Spark on Kubernetes asks of an image's entrypoint: `driver` and `executor` with settings from the environment;
# any other command as it is. tini is process 1, for Python workers leave children behind.
set -euo pipefail

# a pod may run as any user; some of Java's and Hadoop's code wants one with a name
if ! getent passwd "$(id -u)" >/dev/null && [ -w /etc/passwd ]; then
  echo "spark:x:$(id -u):$(id -g):spark:$SPARK_HOME/work-dir:/bin/false" >>/etc/passwd
fi

java_options() { # SPARK_JAVA_OPT_0, _1, ... in the order of their numbers, one to a line
  local number=0 name
  while name=SPARK_JAVA_OPT_$number && [ -n "${!name+set}" ]; do
    printf '%s\n' "${!name}"
    number=$((number + 1))
  done
}

class_path() {
  local path="$SPARK_HOME/conf:$SPARK_HOME/jars/*"
  [ -z "${SPARK_EXTRA_CLASSPATH:-}" ] || path=$SPARK_EXTRA_CLASSPATH:$path
  [ -z "${HADOOP_CONF_DIR:-}" ] || path=$HADOOP_CONF_DIR:$path
  echo "$path:$PWD"
}

command=("$@")
case ${1:-} in
  driver)
    command=("$SPARK_HOME/bin/spark-submit"
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS"
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS"
      --deploy-mode client "${@:2}")
    ;;
  executor)
    mapfile -t options < <(java_options)
    command=("$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY"
      -cp "$(class_path)" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES"
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP"
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME")
    ;;
esac
exec /usr/bin/tini -s -- "${command[@]}"
